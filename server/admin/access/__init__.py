"""Who visits the admin page: sessions, logins, and the audit of both."""
