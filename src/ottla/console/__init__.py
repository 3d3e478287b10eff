"""The console: web pages for a broker or a data directory, rendered on the server, some live.

`app.py` has the routes; a function in `views/` returns a page's data, which is also its JSON, and
`templates/` render it. Imported only by `ottla console`, because it needs the extra
`ottla[console]`.
"""
