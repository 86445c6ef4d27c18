"""Authentication: a bearer token becomes a principal with scopes."""
