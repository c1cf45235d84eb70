"""A server with one page that interprets: words in, words out, reads and writes drawn as they fall.

`app` answers requests and guards the socket, `messages` says what may be said on it, `sessions`
keeps what outlives a connection, `interpretation` has the models read, and `models` has the models.
Only `app` and `server` know the web libraries.
"""
