"""`scare federate`: sites that may not share readings fit one calibrator together."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.calibrator.calibrator import Calibrator
from scare.cli import options
from scare.cli.config import read_config
from scare.cli.console import emit, note, progress, show_table
from scare.cli.train import require_training
from scare.data.quantities import display_unit
from scare.data.readings import Readings
from scare.data.simulated_agencies import write_agencies
from scare.errors import ScareError, UsageError
from scare.federated.agreement import FEWEST_SITES, AgreedData, Agreement, read_agreement
from scare.federated.combined import combine
from scare.federated.pooled import Ask, Federation, federate, raw_error
from scare.federated.privacy import Privacy
from scare.federated.site import DONE, AnswerNetwork, Site, check_columns, read_site
from scare.files import replacing
from scare.live.config import secret
from scare.report.federation_chart import make_federation_chart
from scare.words import listed, plural, suggestion

TOKEN = "SCARE_FEDERATE_TOKEN"  # an environment variable
app = typer.Typer(
    help="Fit one calibrator at several sites that may not share readings.",
    no_args_is_help=True,
)


@app.command("simulate")
def simulate_agencies(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
    boxes: Annotated[int, typer.Option("--boxes", min=1, max=100, help="Boxes of each agency.")] = 3,
    days: Annotated[float, typer.Option("--days", min=10, help="Days of hourly readings.")] = 60.0,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Write the tables of two simulated agencies and of a third town, tokens and the server's file.

    Examples:
      scare federate simulate --out agencies
    """
    files = write_agencies(out, boxes, days, seed)
    if as_json:
        emit({"files": [str(file) for file in files]})
    else:
        note(f"Wrote {listed([file.name for file in files])} to {out}.")


@app.command("server")
def serve(
    agreement: Annotated[Path, typer.Argument(help="What the sites agreed on: a TOML file (docs/federate.md).")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the results.")],
    without: Annotated[str, typer.Option("--without", help="Sites to leave out: north,south.")] = "",
    as_json: options.Json = False,
) -> None:
    """Collect sums of all sites, fit the calibrator, and give it to them; no reading ever arrives here.

    Examples:
      scare federate server agencies/federation.toml --out out/federation
    """
    from scare.federated.exchange import FederationServer, TaskBoard

    agreed = _leave_out(read_agreement(agreement), options.split_names(without) if without else ())
    if agreed.network is not None:
        require_training()  # before anybody has to wait
    board = TaskBoard(agreed, note)
    server = FederationServer(agreed, board)
    server.start()
    try:
        note(f"Waiting for {listed(list(agreed.sites))} at {server.address}. Press Ctrl-C to stop.")
        federation = federate(board.ask, agreed)
        if agreed.network is not None:
            federation = replace(federation, calibrator=_train_network(board.ask, agreed, federation))
        path = federation.calibrator.save(out / "federated.scare")
        board.ask(federation.last_tasks(path.read_bytes(), list(agreed.sites)))
    except ScareError as error:
        board.ask({site: {"kind": DONE, "reason": str(error)} for site in agreed.sites})
        raise
    finally:
        server.stop()
    described = _describe(federation)
    texts = {
        "federation.json": json.dumps(described, indent=1, allow_nan=False),
        "federation.svg": make_federation_chart(described["sites"], federation.calibrator.target.unit),
    }
    for name, text in texts.items():
        with replacing(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    if as_json:
        emit(described)
    else:
        _show(described)
    for doubt in federation.doubts:
        note(f"Doubtful: {doubt}.")
    if federation.calibrator.intervals is None:
        note("There are no intervals: sites that add noise send no errors.")
    note(f"Wrote federated.scare, federation.json and federation.svg to {out}.")


@app.command("site")
def answer(
    files: options.Files,
    server: Annotated[str, typer.Option("--server", help="Address of the server: https://federation.example:8080.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the calibrator and a copy of all that is sent.")],
    token_file: Annotated[
        str, typer.Option("--token-file", help="File with this site's token.", show_default=f"${TOKEN}")
    ] = "",
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="Add noise for differential privacy.", show_default="no noise")
    ] = None,
    delta: Annotated[float, typer.Option("--delta", help="δ of that noise.")] = 1e-6,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows that the noise hides together.")] = 1,
    config: options.ConfigFile = None,
    as_json: options.Json = False,
) -> None:
    """Answer the server from this site's readings, which stay here; everything sent is kept in OUT/sent.

    Examples:
      scare federate site north.csv --server http://127.0.0.1:8080 --token-file north.token --out out/north
      scare federate site box*.csv --server https://federation.example:8080 --epsilon 1 --out out/north
    """
    from scare.federated.exchange import Connection, run_site, save_results

    privacy = None if epsilon is None else Privacy(epsilon, delta, rows)
    token = secret(token_file, TOKEN)
    if not token:
        raise UsageError(f"a site needs its token: give --token-file, or the variable {TOKEN}")
    connection = Connection(server, token, note)
    agreed, name = connection.agreement()
    readings = read_site(files, agreed, read_config(config).config.data, note)
    site = Site(readings, agreed, privacy, _network_site(readings, agreed))
    noise = f"with noise (ε = {epsilon:g}, δ = {delta:g}, {plural(rows, 'row')})" if privacy else "without noise"
    note(f"'{name}' sends sums of {len(site.rows):,} rows {noise}; what is sent is kept in {out / 'sent'}.")
    combined = save_results(run_site(connection, site, out, note), readings, out)
    path = out / "federated.scare"
    facts = Calibrator.load(path).facts
    if as_json:
        shown = {"site": name, "rows": len(site.rows), "calibrator": str(path), "site_rmse": facts.get("site_rmse")}
        emit({**shown, "combined": str(out / "combined.scare"), **_facts_of(combined)})
    note(f"Wrote {path}.")
    _tell_combined(combined, "the others", out / "combined.scare")


@app.command("combine")
def combine_with_own(
    federated: Annotated[Path, typer.Argument(help="The calibrator of a federation.")],
    files: options.Files,
    out: Annotated[Path, typer.Option("--out", help="Calibrator to write.")],
    config: options.ConfigFile = None,
    as_json: options.Json = False,
) -> None:
    """Fit a federation's calibrator to boxes of your own, from days beside a reference; nothing is sent.

    Examples:
      scare federate combine out/north/federated.scare week.csv --out third.scare
    """
    calibrator = Calibrator.load(federated)
    data = AgreedData(calibrator.inputs.channels, calibrator.target, calibrator.inputs.step_seconds)
    readings = read_site(files, Agreement(data), read_config(config).config.data, note)
    check_columns(readings, Agreement(data))
    combined = combine(calibrator, readings)
    combined.save(out)
    if as_json:
        emit({"combined": str(out), **_facts_of(combined)})
    _tell_combined(combined, "the federation", out)


def _facts_of(combined: Calibrator) -> dict[str, Any]:
    """Return how a site's calibrator was combined, and the errors by which this was chosen."""
    return {name: combined.facts[name] for name in ("way", "forward_rmse")}


def _tell_combined(combined: Calibrator, others: str, path: Path) -> None:
    unit = display_unit(combined.target.unit)
    errors = {who: f"{error:.3g} {unit}".rstrip() for who, error in combined.facts["forward_rmse"].items()}
    note(
        f"Forward in time on this site's rows the RMSE is {errors['alone']} by itself, {errors['federated']} by"
        f" {others} and {errors['combined']} combined ({combined.facts['way']}). Wrote {path}."
    )


def _train_network(ask: Ask, agreement: Agreement, federation: Federation) -> Calibrator:
    """Train the network that is agreed on, and print its error and the regression's; returns the better calibrator."""
    from scare.training.rounds import train_rounds

    assert agreement.network is not None
    with progress("averaging networks", "error") as (bar, task):
        bar.update(task, total=agreement.network.rounds)

        def report(number: int, rmse: float) -> None:
            bar.update(task, completed=number, error=f"{rmse:.4g}")

        calibrator = train_rounds(ask, agreement, federation, report)
    errors = calibrator.facts["rmse_of_rounds"]
    better = "network" if "rounds" in calibrator.facts else "regression"
    note(
        f"On rows that no site trained on, the network's RMSE is {errors['network']:.4g} and the regression's"
        f" {errors['regression']:.4g} (median of the sites); the {better} is kept."
    )
    return calibrator


def _network_site(readings: Sequence[Readings], agreement: Agreement) -> AnswerNetwork | None:
    """Return the function that answers the tasks of a network; None if no network is agreed on."""
    if agreement.network is None:
        return None
    require_training()
    from scare.training.rounds import NetworkSite

    return NetworkSite(readings, agreement).answer


def _leave_out(agreement: Agreement, names: Sequence[str]) -> Agreement:
    """Return the agreement without the sites of these names."""
    for name in names:
        if name not in agreement.sites:
            raise UsageError(f"--without names '{name}', which is no site{suggestion(name, list(agreement.sites))}")
    remaining = {site: token for site, token in agreement.sites.items() if site not in names}
    if len(remaining) < FEWEST_SITES:
        raise UsageError("--without leaves fewer than two sites")
    return replace(agreement, sites=remaining)


def _describe(federation: Federation) -> dict[str, Any]:
    """Return the contents of federation.json."""
    calibrator = federation.calibrator
    return {
        "unit": calibrator.target.unit,
        "model": calibrator.facts.get("structure", calibrator.facts["model"]),
        "sites": {
            site: {
                "rows": round(federation.moments[site].count),
                "raw": raw_error(federation.moments[site], calibrator),
                **errors,
            }
            for site, errors in federation.errors.items()
        },
        "doubts": federation.doubts,
    }


def _show(described: dict[str, Any]) -> None:
    """Print the errors at each site, as in federation.json."""
    unit = f" [{display_unit(described['unit'])}]" if described["unit"] else ""
    headings = {"raw": "as it reads", "others": "by the others", "own": "by itself", "all": "by all"}
    rows = []
    for site, facts in described["sites"].items():
        errors = ("–" if facts[name] is None else f"{facts[name]:.3g}" for name in headings)
        rows.append([site, f"{facts['rows']:,}", *errors])
    title = f"RMSE{unit} at each site, by who fitted the regression"
    show_table(title, ["site", "rows", *headings.values()], rows)
