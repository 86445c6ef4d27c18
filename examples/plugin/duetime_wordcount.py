"""The action `count-words`: counts the words of a folder of text files, and continues where it stopped.

It shows what a longer handler does. It reads a checked payload, saves how far it is, shows progress, and stops when it
is asked to. It distinguishes failures that may pass from those that will not.
"""

from __future__ import annotations

from pathlib import Path

from duetime import Context, Done, Failed, Retry, Yielded, handler
from pydantic import BaseModel, Field


class Folder(BaseModel):
    """The payload that an agent gives; descriptions and examples are shown to it when it gets one wrong."""

    path: str = Field(description="a folder of .txt files", examples=["/home/me/notes"])


@handler("count-words", payload=Folder, time_limit=300)
def count_words(ctx: Context, payload: Folder) -> Done | Failed | Retry | Yielded:
    """Count the words of all .txt files in a folder."""
    folder = Path(payload.path)
    if not folder.is_dir():
        return Failed(f"there is no folder {folder}")
    files = sorted(folder.glob("*.txt"))
    state = ctx.checkpoint_state or {"after": "", "words": 0}
    for number, file in enumerate(files, start=1):
        if file.name <= state["after"]:
            continue
        if ctx.cancelled or ctx.should_yield():
            return Yielded(checkpoint=state, reason=f"stopped before {file.name}")
        try:
            words = len(file.read_text("utf-8", "replace").split())
        except OSError as error:
            return Retry(f"{file.name} cannot be read now ({error.strerror})")
        state = {"after": file.name, "words": state["words"] + words}
        ctx.checkpoint(state)
        ctx.progress(number / len(files), file.name)
    return Done(f"{state['words']:,} words in {len(files)} files", {"words": state["words"], "files": len(files)})
