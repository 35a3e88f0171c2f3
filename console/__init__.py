"""The console: pages of the API process, to search, see why a document stands where it stands, and watch the installation.

`site` has the routes, `sessions` the login, `pages` what every page has.  Every page is also JSON, at its address with `.json`.
"""
