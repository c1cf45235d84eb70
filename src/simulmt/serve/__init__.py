"""A server with one page that translates words as they arrive, and draws every read and write.

`app` answers requests and guards the socket, and `server` runs it; only these two know the web
libraries. `messages` are what clients and the server say. `sessions` have their words read in
rounds; an `interpretation` reads the words of one session, and `models` has the models.
"""
