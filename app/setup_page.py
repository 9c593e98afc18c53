"""The set-up page: what `doctor` finds, what is missing, what that costs, and the line to copy; looked at again."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from PySide6.QtCore import QCoreApplication, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app import theme
from app.steps import Step
from app.task import Task
from engine.config.store import Loaded
from engine.errors import ZatError
from engine.events import Snapshot

_AGAIN: Final = 5000  # ms between two looks while the page is seen
_MARGIN: Final = 24


class SetupPage(QScrollArea):
    """Looks while it is shown. What a running engine knows of job and sensors comes by `draw`, so nothing starts twice.

    `loaded`: the settings in force.
    """

    def __init__(self, loaded: Loaded, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._loaded = loaded
        self._snapshot: Snapshot | None = None
        self._findings: Mapping[str, Any] | None = None
        self._handed_over = False
        self._shown: object = None
        self._task = Task("set-up look", self)
        self._task.finished.connect(self._found)
        self._timer = QTimer(self)
        self._timer.setInterval(_AGAIN)
        self._timer.timeout.connect(self.look)
        self._build()

    def _build(self) -> None:
        page = QWidget()
        self._column = QVBoxLayout(page)
        self._column.setContentsMargins(_MARGIN, 20, _MARGIN, _MARGIN)
        self._column.setSpacing(18)
        self._title = theme.label("", "title")
        self._button = QPushButton(self.tr("&Look again"))
        self._button.clicked.connect(self.look)
        top = QHBoxLayout()
        top.addWidget(self._title, 1)
        top.addWidget(self._button)
        self._column.addLayout(top)
        self._body = QWidget()
        self._column.addWidget(self._body)
        self._column.addStretch(1)
        self.setWidget(page)
        self.setWidgetResizable(True)
        self._title.setText(self.tr("Looking around…"))

    # ---- what others call --------------------------------------------------------------------------------------------

    def draw(self, snapshot: Snapshot) -> None:
        """Take in what the engine sees."""
        self._snapshot = snapshot
        held = snapshot.background_share < 100 and snapshot.background_verified is True
        if held and not self._handed_over:
            self._handed_over = True
            self._fill()

    def set_loaded(self, loaded: Loaded) -> None:
        """Go by these settings from now on."""
        self._loaded = loaded
        self._handed_over = False
        if self.isVisible():
            self.look()

    def show_findings(self, findings: Mapping[str, Any]) -> None:
        """Show what `doctor` found."""
        self._findings = findings
        self._fill()

    def look(self) -> None:
        """Look now, on a thread."""
        from diagnostics import doctor  # noqa: PLC0415 - brings the server's client, which is not needed before

        loaded, snapshot = self._loaded, self._snapshot
        self._task.start(
            partial(doctor.report, loaded, _background(snapshot), dict(snapshot.sensors if snapshot else {}))
        )

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def _found(self, findings: object) -> None:
        if isinstance(findings, ZatError):
            self._title.setText(str(findings))
        elif isinstance(findings, Mapping):
            self.show_findings(findings)

    def _fill(self) -> None:
        """Show what was found; only where it differs, lest a text jumps away under somebody who selects it."""
        findings = self._findings
        if findings is None or self._shown == (findings, self._handed_over):
            return
        self._shown = (findings, self._handed_over)
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(22)
        steps = self._steps(findings)
        for step in steps:
            column.addWidget(step)
        done = sum(step.done for step in steps)
        whole = (
            self.tr("All set: the job is left alone, as you chose")
            if self._leaves_the_job_alone()
            else self.tr("All set: the card was handed over, and seen to be free")
        )
        text = self.tr("{done} of {all} steps done").format(done=done, all=len(steps))
        self._title.setText(whole if done == len(steps) else text)
        self._column.replaceWidget(self._body, body)
        self._body.deleteLater()
        self._body = body

    def _steps(self, findings: Mapping[str, Any]) -> list[Step]:
        server, background = findings["server"], findings["background"]
        held_by = background["chosen"] not in ("null", "") or self._leaves_the_job_alone()
        sensing = any(state == "on" for state in findings["sensors"].values())
        advice = findings["advice"]

        def of(about: str) -> list[dict[str, Any]]:
            return [entry for entry in advice if entry["about"] == about]

        def needed(about: str) -> bool:
            return any(not entry["optional"] for entry in of(about))

        job_done = held_by and not needed("background")
        steps = [
            Step(self.tr("Language-model server"), _server_facts(server), of("server"), not needed("server")),
            Step(self.tr("Background job"), _job_facts(background), of("background"), job_done),
            Step(self.tr("Sensors"), _sensor_facts(findings["sensors"]), of("sensors"), sensing),
        ]
        if not self._leaves_the_job_alone():
            steps.append(self._last_step())
        if any(entry["fix"].startswith("-") or "=1" in entry["fix"] for entry in of("server")):
            steps[0].offer(server.get("start", ""), server.get("drop_in", ""))
        for problem in findings["problems"]:
            steps[-1].say(problem)
        return steps

    def _leaves_the_job_alone(self) -> bool:
        """Tell whether the user wants it that way: then there is nothing to hand over, and nothing left to do."""
        return self._loaded.settings.background_method == "off"

    def _last_step(self) -> Step:
        fact = (
            self.tr("The job was held, and seen to be held.")
            if self._handed_over
            else self.tr("Not seen yet. Choose “Prepare now” in the menu: the job yields, and comes back by itself.")
        )
        return Step(self.tr("First verified hand-over"), [fact], [], self._handed_over)

    def showEvent(self, event: QShowEvent) -> None:
        """Look now, and again every few seconds."""
        super().showEvent(event)
        self.look()
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        """Ask nobody for what is not seen."""
        self._timer.stop()
        super().hideEvent(event)


def _background(snapshot: Snapshot | None) -> dict[str, Any]:
    """Return what the engine tells of the job, as `doctor` tells it."""
    if snapshot is None:
        return {"chosen": "", "refused": {}, "detail": ""}
    return {"chosen": snapshot.backend, "refused": dict(snapshot.refused), "detail": snapshot.background_detail}


def _server_facts(server: Mapping[str, Any]) -> list[str]:
    tr = QCoreApplication.translate
    if server["state"] == "down":
        return [server["url"]]
    build = tr("Setup", "build {build}").format(build=server["build"]) if server.get("build") else ""
    facts = [" · ".join(part for part in (server["url"], server["state"], build) if part)]
    if server.get("model"):
        facts.append(tr("Setup", "Model: {model}").format(model=server["model"]))
    if server.get("command"):
        facts.append(tr("Setup", "Started as: {command}").format(command=server["command"]))
    return facts


def _job_facts(background: Mapping[str, Any]) -> list[str]:
    tr = QCoreApplication.translate
    running = tr("Setup", "{name}: running, processes at work: {count}").format(
        name=background["name"], count=background["processes"]
    )
    facts = [running] if background["processes"] else []
    if background["chosen"] not in ("null", ""):
        facts.append(tr("Setup", "Can be held by: {way}").format(way=background["chosen"]))
    if background["detail"]:
        facts.append(background["detail"])
    facts += [f"{way}: {reason}" for way, reason in background["refused"].items()]
    return facts


def _sensor_facts(sensors: Mapping[str, str]) -> list[str]:
    if not sensors:
        return [QCoreApplication.translate("Setup", "Not known before the engine runs.")]
    return [" · ".join(f"{name}: {state}" for name, state in sensors.items())]
