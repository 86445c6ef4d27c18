"""The admin page: rendered on the server, live in the browser, under a strict Content Security Policy."""
