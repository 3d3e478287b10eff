"""The console: pages over a broker or a data directory, rendered here, and live where asked to be.

`app.py` has the routes; `views/` makes a page's data, which is also its JSON, and `templates/` show
it. Imported by `ottla console` alone, since it needs the extra `ottla[console]`.
"""
