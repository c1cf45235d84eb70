"""A server with one page that translates words as they arrive, and draws every read and write.

`app` answers requests and guards the socket, and `server` runs it; only these two know the web
libraries. `messages` defines what they send. `sessions` reads words in rounds, `panes` translates
them for each pane, and `models` has the models.
"""
