"""Phase (j), second half: prompts, slot actions and losses in every order, on a model of the server in virtual time."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from diagnostics.stress_client import AgendaClock, ModelClient, SteppedPrefetcher, SteppedWatcher
from diagnostics.stress_model import Agenda, ModelServer, Task
from diagnostics.stress_stage import Figure, Stage
from engine.client.view import View
from engine.config.settings import Settings
from engine.events import (
    CancelPreparation,
    Event,
    ForgetRequested,
    KeepContext,
    PrepareContext,
    PrepareRequested,
    Report,
    State,
    Tick,
)
from engine.orchestration import fsm

INTERLEAVINGS = 10_000
ENOUGH = 200  # so many must have shown every kind of action
SEED = 20_260_103
ROUNDS = 20  # interleavings on one server
TICK = 0.1  # s
ROUND = 3.0  # s in which things collide
SETTLE = 60.0  # s after which every prompt must have its answer
LONGEST = 6.0  # s that a prompt may stand beside a free slot until it is freed
STRUCK = 0.3  # of the slot actions that something collides with on purpose
STRIKE = 0.006  # s around the sending of an action
URL = "http://127.0.0.2:1"


class Game:
    """One server, one user, and our program between them."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance = chance
        self.agenda = Agenda()
        self.model = ModelServer(self.agenda, folder, count=chance.choice((1, 1, 2)))
        self.prompts: list[Task] = []
        self.crashes: list[str] = []
        self._settings = Settings(server_url=URL, slot_save_path=str(folder))
        self._machine = fsm.start(self._settings, self.agenda.now)
        self._inbox: list[Event] = []
        self._tokens = 200
        self._has_metrics = chance.random() < 0.8
        clock, view = AgendaClock(self.agenda), View()
        self._acting = self._client(chance)
        self.prefetcher = SteppedPrefetcher(self._settings, view, folder / "contexts.json", clock, self._acting)
        self._watcher = SteppedWatcher(
            self._settings, view, self._inbox.append, self.prefetcher, clock=clock, server=self._client(None)
        )
        self._tick()
        self._look()

    def _client(self, chance: random.Random | None) -> ModelClient:
        return ModelClient(self.model, URL, chance, self._strike, has_metrics=self._has_metrics)

    def play(self) -> int:
        """Let things collide, then wait until all is quiet; return how many prompts were never answered."""
        self.prompts.clear()
        first = self.chance.uniform(0.0, 1.0)
        self.agenda.after(first, self.chance.choice((self._crash, self._blink, self._sleep, self._nothing)))
        prepare = first + self.chance.choice((0.0, 0.3, 1.0)) + self.chance.uniform(0.0, 0.5)
        if self.chance.random() < 0.8:
            self.agenda.after(prepare, self._prepare)
        for _ in range(self.chance.randint(1, 4)):
            near = prepare + self.chance.uniform(-0.01, 0.15)
            at = near if self.chance.random() < 0.6 else self.chance.uniform(0.0, ROUND)
            self.agenda.after(max(0.0, at), self._prompt)
        self.run(ROUND, lambda: False)
        if self.chance.random() < 0.1:
            self._damage()
        self.run(self.chance.choice((0.0, 0.5, 2.5)), lambda: False)
        self.run(SETTLE, lambda: all(prompt.over for prompt in self.prompts))
        return sum(not prompt.over for prompt in self.prompts)

    def run(self, seconds: float, enough: Callable[[], bool]) -> None:
        """Let time pass. Only one job of the prefetcher is under way at a time, as on its thread."""
        until = self.agenda.now + seconds
        while self.agenda.now < until and not enough():
            if self.prefetcher.due <= self.agenda.now:
                self.prefetcher.step()
            else:
                self.agenda.step(min(until, self.prefetcher.due))

    # ---- Our program -------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Take the inbox and a tick, as the loop does."""
        self.model.watch_waiting()
        events, self._inbox[:] = list(self._inbox), []
        for event in (*events, Tick(0.0)):
            if not isinstance(event, Report | ForgetRequested):
                self._machine, effects = fsm.step(self._machine, event, self.agenda.now, self._settings)
                for effect in effects:
                    self._apply(effect)
        working = self._machine.state in (State.SPECULATIVE_PREPARED, State.ACTIVE_INFERENCE)
        self._watcher.attend(20.0 if working else 10.0)
        self.agenda.after(TICK, self._tick)

    def _apply(self, effect: object) -> None:
        match effect:
            case PrepareContext():
                self.prefetcher.prepare()
            case CancelPreparation():
                self.prefetcher.cancel()
            case KeepContext():
                self.prefetcher.keep()
            case _:
                pass

    def _look(self) -> None:
        try:
            pause = self._watcher.step()
        except Exception as error:  # noqa: BLE001 - what is looked for
            self.crashes.append(f"{type(error).__name__}: {error}")
            pause = TICK
        self.agenda.after(pause, self._look)

    def _prepare(self) -> None:
        self._inbox.append(PrepareRequested(self.chance.uniform(1.0, 5.0)))

    # ---- The user, and what befalls the server -----------------------------------------------------------------------

    def _prompt(self) -> None:
        """Send one that goes on with the conversation, or a short one about something else."""
        if self.chance.random() < 0.8:
            self._tokens = self._tokens + self.chance.randint(20, 400) if self._tokens < 3000 else 200
        tokens = self._tokens if self.chance.random() < 0.8 else 20
        lasts = self.chance.choice((0.02, 0.2, 1.0, 2.0)) * self.chance.uniform(0.5, 1.5)
        task = Task("prompt", tokens=tokens, lasts=lasts, streamed=self.chance.random() < 0.5)
        self.prompts.append(task)
        self.model.submit(task)
        if self.chance.random() < 0.1:
            self.agenda.after(self.chance.uniform(0.0, 1.0), lambda: self._leave(task))

    def _strike(self) -> None:
        """Send prompts, or lose the server, at the very moment in which an action is sent."""
        if self.chance.random() < STRUCK:
            for _ in range(self.chance.randint(1, 3)):
                self.agenda.after(self.chance.uniform(0.0, STRIKE), self._prompt)
        elif self.chance.random() < STRUCK:
            self.agenda.after(self.chance.uniform(0.0, STRIKE), self.chance.choice((self._crash, self._blink)))

    def _leave(self, task: Task) -> None:
        if not task.over:
            self.model.hang_up(task)

    def _crash(self) -> None:
        life = self.model.life + 1
        self.model.die()

        def again() -> None:
            if self.model.life == life and not self.model.alive:
                self.model.rise(self.chance.choice((0.0, 0.5)))

        self.agenda.after(self.chance.uniform(0.1, 1.0), again)

    def _blink(self) -> None:
        """Start anew between two looks."""
        self.model.die()
        self.model.rise(0.0)

    def _sleep(self) -> None:
        self.model.sleep()

    def _nothing(self) -> None:
        pass

    def _damage(self) -> None:
        """Cut a saved context short, or take it away."""
        files = sorted(self.model.folder.glob("*.bin"))
        if files and not self._acting.in_flight:
            file = self.chance.choice(files)
            if self.chance.random() < 0.5:
                file.unlink()
            else:
                file.write_bytes(file.read_bytes()[:-1])


def interleave(stage: Stage) -> dict[str, Figure]:
    """Play: no prompt may be left waiting, no warm slot wiped, nothing may raise."""
    chance, wanted = random.Random(SEED), stage.count(INTERLEAVINGS)
    played = prompts = stranded = overtaken = 0
    done: Counter[str] = Counter()
    wrongs: list[str] = []
    longest = 0.0
    while played < wanted:
        game = Game(stage.room(), chance)
        for _ in range(min(ROUNDS, wanted - played)):
            stranded += game.play()
            prompts += len(game.prompts)
            played += 1
        stage.progress(0.5 + 0.5 * played / wanted)
        wrongs += [*game.model.wrongs, *game.crashes, *game.prefetcher.crashes]
        overtaken += game.model.overtaken
        done += game.model.done
        longest = max(longest, game.model.longest_wait)
    stage.check(not stranded, f"{stranded} prompts were left waiting")
    stage.check(longest <= LONGEST, f"a prompt stood beside a free slot for {longest:.1f} s")
    stage.check(
        wanted < ENOUGH or (done["restore"] and done["unstrand"]), "nothing was restored or freed: it proves nothing"
    )
    stage.faults += wrongs
    return {
        "interleavings": played,
        "prompts": prompts,
        "saves": done["save"],
        "restores": done["restore"],
        "freed": done["unstrand"],
        "stranded": stranded,
        "wiped_or_raised": len(wrongs),
        "overtaken": overtaken,
        "longest_wait_s": round(longest, 2),
    }
