"""`duetime doctor`: checks of the installation, each with its remedy."""
