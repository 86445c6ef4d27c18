"""The tables, a module for each subject. The newest migration and the models are equal on both databases."""
