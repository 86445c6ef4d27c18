"""The store: the truth about every task, run and event, on SQLite or PostgreSQL."""

from duetime.scheduler.store.database.clock import utc_now
from duetime.scheduler.store.integrity import Finding
from duetime.scheduler.store.store import Store, migrate_store, open_store
from duetime.scheduler.store.text_index.search import SearchState

__all__ = ["Finding", "SearchState", "Store", "migrate_store", "open_store", "utc_now"]
