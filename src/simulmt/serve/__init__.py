"""A server with one page that interprets: words in, words out, reads and writes drawn as they fall.

`app` answers requests and guards the socket, `conversation` talks on it, `messages` and `events`
are what is said. A `session` outlives its connections, `sessions` has the words of all of them
read, an `interpretation` is what reads them, and `models` has the models. Only `app`,
`conversation` and `server` know the web libraries.
"""
