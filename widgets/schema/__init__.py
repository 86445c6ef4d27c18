"""The structured content that cards, tools, REST and `--json` share: `duetime.task/1` and `duetime.list/1`."""
