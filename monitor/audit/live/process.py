"""The loop of `audit --follow`: turns of the follower, with health, metrics and a log line for each change of state."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import Final

from monitor.audit.compare_ticks import Run
from monitor.audit.follow_topic import Follower
from monitor.audit.live.config_files import ConfigFiles
from monitor.audit.live.metrics import AuditMetrics
from monitor.audit.live.result_file import ResultFile
from monitor.audit.topic_reader import Sources, TopicChangedError, UnreadableTopicError
from monitor.observe.health import Health

log = logging.getLogger(__name__)

LOOP: Final = "audit"
PAUSE_SECONDS: Final = 0.5

_CUT_OFF: Final = (
    'the input cannot be read: %s. Bytes, form, pauses and ε of new answers are checked, but whether "safe" and the '
    "bounds are true is not known. They are compared as soon as the input can be read"
)
_INCOMPLETE: Final = (
    "some of the last ticks could not be judged completely: they are partial, unproven or unjudged "
    "(location_monitor_audit_ticks_total)"
)


class AuditProcess:
    """The process of `audit --follow`. It runs a follower; if a topic is re-created, another one.

    Args:
        files: the configurations. If they change, everything is read and judged again, as after a restart.
        sources: how to read the topics.
        run: what of the run is audited.
        metrics, health: receive the state after each turn.
        result: the file that states what was proven, if any.
    """

    def __init__(
        self,
        files: ConfigFiles,
        sources: Sources,
        run: Run,
        metrics: AuditMetrics,
        health: Health,
        result: ResultFile | None = None,
    ) -> None:
        self._files = files
        self._sources = replace(sources, alive=lambda: health.report_alive(LOOP, self._reason))
        self._reason = "starting"
        self._run = run
        self._metrics = metrics
        self._health = health
        self._result = result
        self._logged = ("", "")
        health.expect(LOOP)

    def run(self, stop: threading.Event) -> None:
        """Judge what is published until `stop` is set."""
        while not stop.is_set():
            follower = Follower(self._files.configs, self._sources, self._run)
            if self._result is not None and follower.signed is not None:
                follower.signed.signatures.expect(self._result.cosigned)
            self._metrics.restart()
            self._metrics.describe(self._files.configs, compares_input=self._sources.open_input is not None)
            try:
                self._follow(follower, stop)
            except TopicChangedError as error:
                log.warning("%s: it was re-created, and is read from its beginning", error)
            finally:
                follower.close()

    def _follow(self, follower: Follower, stop: threading.Event) -> None:
        """Let a follower judge until `stop` is set, or until the configurations change."""
        while not stop.is_set():
            if self._files.reread():
                log.info("the configuration was changed: everything is read and judged again, as after a restart")
                return
            more, failure = False, ""
            try:
                more = follower.take_turn()
            except UnreadableTopicError as error:
                failure = str(error)
            self._metrics.update(follower, self._files.configs)
            if failure:
                self._enter("no_output", failure)
            else:
                self._describe(follower, more=more)
            if not more:
                stop.wait(PAUSE_SECONDS)

    def _describe(self, follower: Follower, *, more: bool) -> None:
        if follower.cut_off:
            self._enter("cut_off", follower.cut_off)
        elif more or follower.delayed:
            self._enter("catching_up", follower.delayed or "catching up")
        else:
            reason = follower.unreported or ("" if follower.engine.complete else _INCOMPLETE)
            self._enter("judging", reason)
            if not reason:
                self._metrics.note_success(time.time())
            if self._result is not None and (proven := follower.proven_stretch) is not None:
                self._result.write(proven, follower.proven_notes)

    def _enter(self, state: str, reason: str) -> None:
        """Report a state, and why the auditor is not ready in it; the reason is empty if it is ready."""
        self._reason = reason
        self._health.report_alive(LOOP, reason)
        self._metrics.set_state(state)
        known = state, reason if state == "judging" else ""
        if state == "catching_up" or known == self._logged:
            return
        self._logged = known
        if state == "cut_off":
            log.warning(_CUT_OFF, reason)
        elif state == "no_output":
            log.warning("the output cannot be read, so nothing is checked: %s", reason)
        elif reason:
            log.warning("everything that was published has been read, but %s", reason)
        else:
            log.info("everything that was published has been judged")
