"""Rules by which a series continues: what overlaps, what was missed, what fails in a row."""
