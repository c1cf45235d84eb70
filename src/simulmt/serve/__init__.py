"""A server with one page that translates words as they arrive, and draws every read and write.

`app` answers requests and guards the socket; `conversation` is one connection to the socket.
`messages` are what clients say, `events` what the server says. A `session` outlives its
connections, and `sessions` reads the words of all sessions in rounds. An `interpretation` reads
the words of one session, and `models` has the models. Only `app`, `conversation` and `server` know
the web libraries.
"""
