"""Tools of administrators: no other caller is shown them."""
