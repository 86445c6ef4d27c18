"""Pure decisions: functions of a snapshot and of `now`, without input or output."""
