"""Tools of workers elsewhere: callers with the scope `worker` alone are shown them."""
