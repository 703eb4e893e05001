"""A session at work: its folder, its jobs, what it comes to, and who is told when that changes."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scare.files import replacing
from scare.records import merged
from scare.web import steps
from scare.web.choosing import Choices, choose, read_said
from scare.web.jobs import DONE, Job, Jobs, shown
from scare.web.sessions import FILES, Session


class Workshop:
    """One open session."""

    def __init__(self, session: Session, memory_bytes: int) -> None:
        self.session = session
        self.jobs = Jobs(session.folder, memory_bytes, self._change)
        self.change, self._news = 0, asyncio.Event()

    def _change(self) -> None:
        self.change += 1
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, seconds: float) -> None:
        """Wait until something changes, but not for ever."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return

    @property
    def choices(self) -> Choices:
        """What the session comes to now."""
        found = {name: self.jobs.found.get(f"look:{name}") for name in self.session.files}
        looks = {name: job.results[-1] for name, job in found.items() if job and job.state == DONE}
        return choose(looks, read_said(self.session.said))

    def say(self, said: Mapping[str, Any]) -> None:
        """Take over what the person chose."""
        known = merged(self.session.said, said)
        read_said(known)
        self.session = replace(self.session, said=known).save()
        for name in self.session.files if "dates" in said else ():
            self.jobs.start(steps.look(name, self.choices.said.dates))
        self._change()

    def arrived(self, place: str, name: str) -> None:
        """Look at a file that has just come, if it is to learn from."""
        self.jobs.forget(f"predict:{name}")
        if place == FILES:
            self.jobs.start(steps.look(name, self.choices.said.dates))
        self._change()

    def drop(self, name: str) -> None:
        """Remove a file and what was made of it."""
        self.session.file(name).unlink()
        for job in (f"look:{name}", f"predict:{name}"):
            self.jobs.forget(job)
        self._change()

    def begin(self, name: str, asked: Mapping[str, Any]) -> None:
        """Start a step."""
        job = steps.make(self.session, self.choices, name, asked)
        if "config" in job.about:
            with replacing(self.session.folder / job.about["written"]) as temporary:
                temporary.write_text(job.about["config"], encoding="utf-8")
        for other in list(self.jobs.found) if name == "train" else ():
            if other.partition(":")[0] in steps.AFTER_TRAINING:
                self.jobs.forget(other)
        self.jobs.start(job)

    def state(self) -> dict[str, Any]:
        """All that the page shows, but for what jobs have found."""
        choices = self.choices
        jobs = {name: self._brief(job) for name, job in self.jobs.found.items()}
        return {
            "change": self.change,
            "id": self.session.id,
            "title": self.session.title,
            "folder": str(self.session.folder),
            "files": self.session.files,
            "later": self.session.later,
            "choices": choices.as_dict(),
            "config": "" if choices.missing else choices.config(),
            "jobs": jobs,
        }

    def _brief(self, job: Job) -> dict[str, Any]:
        return {**job.brief(), "commands": shown(job.commands)}


def as_event(state: Mapping[str, Any]) -> str:
    """A state as a server-sent event."""
    return f"data: {json.dumps(state, separators=(',', ':'), allow_nan=False)}\n\n"
