"""What the user holds: a trainer with a plan, tuned by one or more tuners."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from hippotune import checks
from hippotune.errors import InvalidInput, MissingExtra
from hippotune.executors.base import Executor
from hippotune.history.studies import listed_as
from hippotune.identity.key import PlanKey
from hippotune.protocol.failures import Retries
from hippotune.scheduling.policy import WidthPolicy
from hippotune.sequences.config import Config, ConfigLike
from hippotune.shell.interrupts import end_at_once
from hippotune.shell.runtime import Runtime
from hippotune.sinks.base import Sink
from hippotune.store.homes import parse_home
from hippotune.study.average import Average, average
from hippotune.study.callbacks import Callback
from hippotune.study.completion import Completion
from hippotune.study.connection import Connection
from hippotune.study.limits import Deadline, Limits
from hippotune.study.models import failed_trial
from hippotune.study.plan_loop import PlanLoop
from hippotune.study.report import Report
from hippotune.study.trunk import Trunk
from hippotune.study.tune import tune
from hippotune.study.tuning import Tuning
from hippotune.trainers import seeding
from hippotune.trainers.base import Trainer
from hippotune.tuners.base import Result, TrialGroup, Tuner
from hippotune.view import open_view

if TYPE_CHECKING:
    import optuna

Asks = TrialGroup | Iterable[tuple[ConfigLike, int]]


class Study:
    """A study of one trainer.

    Nothing is opened or started before the first `tune`, `train` or `eval`. Workers then stay up until
    `close` (or the end of a ``with`` block, or of the program).

    Parameters
    ----------
    name : str
        What the study is called in the store and on the command line.
    trainer : type[Trainer]
        The trainer's class. Its source with all that it reads, `settings`, `data` and `seed` make the plan:
        studies that agree in them share everything that was trained; any change begins a new plan.
    home : str or Path
        The folder of the store and of checkpoints; or a URL, such as ``s3://bucket/study``, below which
        checkpoints are kept (extra `storage`).
    executor : Executor
        Where to train; by default two local processes.
    settings : Mapping[str, Any]
        Fixed settings for the trainer (``self.settings``).
    seed : int
        The seed that every trial starts from (``self.seed``).
    share : bool
        False trains every trial alone: the baseline for comparisons.
    store : str
        A database URL, such as ``postgresql://…``, in place of SQLite below `home`.
    version : str
        Identifies the training code instead of its source and what that reads, where changes are known not
        to matter; other versions of Python, torch and NumPy then go on with the plan too.
    data : str or Path
        What the trainer learns from. A path (a `Path`, or text that names a file or folder that exists)
        counts by its content; a URL or version, by its text.
    checkpoint_budget : str or int
        How much all checkpoints of the plan may take, as ``"20GB"`` or in bytes; by default as much as
        there is. What costs least to train again goes first.
    keep_best : int
        The checkpoints of this many best results stay, even above the budget.
    width : WidthPolicy
        How many workers each stage gets, such as ``hippo.Fluid(max_width=4)``; by default one each.
    defaults : Mapping[str, Sequence or value]
        The values of hyper-parameters that a config does not name, or names only from a branch on.
    start : str or Path
        A file of weights that every trial starts from, as a path or a URL: a `state_dict` for torch or
        safetensors, or a Hippo export. It counts by its content; see `TorchTrainer.load_start`.
    substeps : int
        How often schedules are looked at within a step, where a step is an epoch: ``self.hp("lr", part)`` in
        `train` is the value at step + part / substeps, and trials share a step only if all of these agree.
    exact : bool
        Whether the study ends where a trial that is resumed is found to differ from one that is trained
        straight through. With False it goes on, and every report says so.
    audit : float
        Which share of the work may go into repeating steps at branches, to see that they come out the same;
        0 repeats none. The first step of a plan is repeated in any case.
    retries : int or Retries
        How often a stage whose worker died, hung or lost a device or a connection is tried again, after
        pauses of one second, two, four and so on (``hippo.Retries(times, pause)`` sets both). Then it is
        suspended: its trials have not failed, and ``hippo retry`` lets them go on.
    checkpoint_every : float, optional
        Seconds after which a long stage is saved on its way, so that the loss of a worker or a machine costs
        no more than that and a step. Less often where saving is slow, so that it takes at most 5 % of the
        time; None saves at the ends of stages only.
    url : str, optional
        The address of a server (``hippo serve``) that has the plan and the workers, such as
        ``http://host:8477``; then `home`, `executor` and `store` are the server's own (extra `serve`).
    tuner : str
        Where tuners run, with `url`: in a process of the server, so that this one may end ("server"), or in
        this one ("client").
    code : str, optional
        How the trainer gets to the server: "entry", by its name, as it is installed there; "bundle", with the
        files of its project that git tracks; "value", pickled. By default what fits where it is from.
    """

    def __init__(
        self,
        name: str,
        trainer: type[Trainer],
        *,
        home: str | Path = ".hippo",
        executor: Executor | None = None,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        share: bool = True,
        store: str | None = None,
        version: str | None = None,
        data: str | Path | None = None,
        checkpoint_budget: str | int | None = None,
        keep_best: int = 3,
        width: WidthPolicy | None = None,
        defaults: ConfigLike | None = None,
        start: str | Path | None = None,
        substeps: int = 1,
        exact: bool = True,
        audit: float = 0.01,
        retries: int | Retries = 3,
        checkpoint_every: float | None = 600,
        url: str | None = None,
        tuner: Literal["server", "client"] = "server",
        code: Literal["entry", "bundle", "value"] | None = None,
    ) -> None:
        checks.text("name", name, "digits")
        checks.subclass("trainer", trainer, Trainer, "a class that extends hippo.Trainer")
        if executor is not None:
            checks.instance("executor", executor, Executor, "an executor, such as hippo.Local(workers=2)")
        self.name = name
        self.trainer = trainer
        self.home, self._storage = parse_home(home)
        self.settings = checks.mapping("settings", settings, '{"device": "cuda"}')
        self.seed = seeding.checked(seed)
        self.share = checks.yes_or_no("share", share)
        self._store_url = None if store is None else checks.text("store", store, "postgresql://host/database")
        self.checkpoint_budget = (
            None if checkpoint_budget is None else checks.size("checkpoint_budget", checkpoint_budget)
        )
        self.keep_best = checks.whole("keep_best", keep_best, least=0)
        if width is not None:
            checks.instance("width", width, WidthPolicy, "a policy, such as hippo.Fluid(max_width=4)")
        self.width = width
        self.defaults = Config({} if defaults is None else defaults)
        self.substeps = checks.whole("substeps", substeps)
        self.start = start
        self.exact = checks.yes_or_no("exact", exact)
        self.audit = checks.number("audit", audit, least=0, most=1, what="a share of the work")
        if not isinstance(retries, Retries):
            retries = Retries(checks.whole("retries", retries, least=0))
        self.retries = retries
        if checkpoint_every is not None:
            checks.number("checkpoint_every", checkpoint_every, above=0, what="seconds")
        self.checkpoint_every = checkpoint_every
        self.data = data
        self._version = None if version is None else checks.text("version", version, "2")
        self._executor = executor
        self._url = url
        self._code = code
        self._tuner = tuner
        self._connection = self._connected()
        self._completion = Completion(self.defaults, substeps)
        self._trunks: dict[Config, None] = {}

    def _connected(self) -> Connection:
        """Return the connection to the plan: in this process, or on a server."""
        checks.one_of("tuner", self._tuner, ("server", "client"))
        if self._code is not None:
            checks.one_of("code", self._code, ("entry", "bundle", "value"))
        if self._url is None:
            return Connection(self)
        if self._executor is not None or self._store_url is not None:
            raise InvalidInput(
                "executor= and store= cannot be given with url=: the server has its own, from hippo serve"
            )
        try:
            # Here and below: the server's client is above this folder, and is imported where it is used.
            from hippotune.serve.client.connection import RemoteConnection
        except ImportError as error:
            raise MissingExtra("Study(url=) needs the extra serve: pip install 'hippotune[serve]'") from error
        return RemoteConnection(self, self._url)

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {self.trainer.__name__}, home={self._storage or str(self.home)!r})"

    def __enter__(self) -> Study:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is KeyboardInterrupt:
            end_at_once()  # without waiting for anything else
        self.close()

    @property
    def key(self) -> PlanKey:
        """What the study's plan is found by."""
        return self._connection.key

    @property
    def _listed_name(self) -> str:
        """What the study is called in the store."""
        return listed_as(self.name, self.share)

    @property
    def executor(self) -> Executor:
        """Where the study trains."""
        if self._executor is None:
            from hippotune.executors.local.executor import Local

            self._executor = Local()
        return self._executor

    # Training.

    def tune(
        self,
        tuner: Tuner,
        *,
        deadline: Deadline | None = None,
        budget: float | None = None,
        progress: bool | None = None,
        sinks: Sequence[Sink] = (),
        callbacks: Sequence[Callback] = (),
    ) -> Report:
        """Run a tuner to its end and report.

        Run again after an interruption, it goes on where it was: recorded results are replayed to the
        tuner in the order in which they came. `progress` shows what is going on: by default on terminals
        as a live view, elsewhere as plain lines; False is silent.

        With a `deadline` (seconds from now, a timedelta or a moment) or a `budget` in worker-hours, the
        tuner is ended when it is reached: nothing is started that cannot be heard of before, and running
        stages stop at the end of their step. The report says what was cut.

        `sinks` are fed everything that the study comes to (`hippo.sinks`): one that fails never stops it.
        `callbacks` are told of results (`hippo.Callback`).
        """
        checks.instance("tuner", tuner, Tuner, "a hippo tuner, such as SuccessiveHalving(...)")
        sinks, callbacks = checks.several("sinks", sinks), checks.several("callbacks", callbacks)
        for sink in sinks:
            checks.instance("sinks", sink, Sink, "a list of sinks, such as hippo.sinks.TensorBoard('runs')")
        for callback in callbacks:
            checks.instance("callbacks", callback, Callback, "a list of objects below hippo.Callback")
        limits = Limits.of(deadline, budget)
        if self._url is not None and self._tuner == "server":
            from hippotune.serve.client.following import tune_there

            if callbacks:
                raise InvalidInput(
                    f"callbacks are called in the process that tunes, which is the server at {self._url}: "
                    "make the study with tuner='client'"
                )
            return tune_there(self, tuner, limits, progress, sinks)
        return tune(self, tuner, limits, progress, sinks, callbacks)

    async def train(self, group: Asks) -> list[Result]:
        """Train a trial group and return its results, in the group's order. For use with ``await``."""
        runtime = self._connection.open()
        self._connection.warn(open_view(False), depth=3)
        return await asyncio.wrap_future(runtime.spawn(self._train(group, runtime)))

    async def _train(self, group: Asks, runtime: Runtime) -> list[Result]:
        if not isinstance(group, TrialGroup):
            asks = checks.pairs("group", group, "a config and a step")
            group = TrialGroup(tuple((Config.of(who), step) for who, step in asks))
        return await self._tuning(runtime.loop).once(group)

    def _tuning(self, loop: PlanLoop, **options: Any) -> Tuning:
        """Return the trials of the study, for a tuner or a group."""
        return Tuning(
            loop, self.name, self.share, completion=self._completion, trunks=self._trunks, **options
        )

    def trunk(self, config: ConfigLike) -> Trunk:
        """Return a config that others branch off: ``trunk.branch(at=14_400, lr=Decay(1e-3, 1_600))``.

        From now on, checkpoints are kept on its way where branches are likely.
        """
        made = Config.of(config)
        self._trunks[made] = None
        return Trunk(self, made)

    def average(self, configs: Iterable[ConfigLike], step: int) -> Average:
        """Return the mean of the weights that trials have at a step, evaluated; nothing is trained from it.

        What is missing is trained first. `Average.metrics` is what `evaluate` says of the mean, and
        `Average.export` writes it.
        """
        return average(self, [Config.of(config) for config in checks.several("configs", configs)], step)

    def eval(self, config: ConfigLike, step: int) -> dict[str, float]:
        """Return the metrics of one trial at one step, training what is missing."""
        (result,) = self._connection.run(partial(self._train, [(config, step)]))
        if result.metrics is None:
            raise failed_trial(result)
        return dict(result.metrics)

    def load(self, config: ConfigLike, step: int) -> Trainer:
        """Return a trainer that holds the state of one trial after `step` steps, training what is missing."""
        return self._connection.models.load(Config.of(config), step)

    def export(self, config: ConfigLike, step: int, path: str | Path) -> Path:
        """Write the model of one trial after `step` steps as `Best.export` does, training what is missing."""
        return self._connection.models.export(Config.of(config), step, path)

    @overload
    def alone(self, config: ConfigLike, steps: int) -> dict[str, float]: ...

    @overload
    def alone(self, config: ConfigLike, steps: Iterable[int]) -> dict[int, dict[str, float]]: ...

    def alone(
        self, config: ConfigLike, steps: int | Iterable[int]
    ) -> dict[str, float] | dict[int, dict[str, float]]:
        """Train one trial by a plain loop in a fresh process and return its metrics after `steps` steps.

        Nothing that was trained before is used, and nothing is kept: this is what every result of the study
        must be equal to, bit for bit. For several steps it returns metrics by step.
        """
        from hippotune.study.alone import alone

        metrics = alone(self, Config.of(config), steps)
        return metrics[steps] if isinstance(steps, int) else metrics

    def to_optuna(self, metric: str | None = None, mode: str | None = None) -> optuna.Study:
        """Return what the study has come to as an Optuna study in memory, for Optuna's plots and dashboard.

        Results are ranked by `metric` and `mode` ("max" or "min"); by default as the study was last tuned.
        Trials that others of the study went further than are pruned ones there.
        """
        from hippotune.history.optuna_study import optuna_study, to_optuna

        if self._url is not None:
            from hippotune.serve.client.catalog import remote_study

            _, history, _ = remote_study(self._url, self._listed_name, self.key.digest)
            return optuna_study(history, metric, mode)
        runtime = self._connection.runtime
        kept = runtime.store if runtime is not None and self.executor.virtual else None
        return to_optuna(self, kept, metric, mode)

    # Opening and closing.

    def open(self) -> None:
        """Open the plan and start the workers now, instead of at the first use."""
        self._connection.open()

    def halt(self) -> None:
        """Stop at the end of the running steps, keep everything, and end the workers."""
        if self._connection.runtime is not None:
            self._connection.runtime.halt()

    def close(self) -> None:
        """End the workers and unlock the plan. The study can be used again afterwards."""
        self._connection.close()
