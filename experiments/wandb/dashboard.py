"""The dashboard of a project's runs in W&B, as code.

    python experiments/wandb/dashboard.py ENTITY PROJECT     # needs wandb login

This creates a workspace: quality over latency with a point for each run, training curves,
translations, and paths of reads and writes. A second run creates another workspace of the same
name.
"""

from __future__ import annotations

import argparse
import sys

import wandb_workspaces.reports.v2 as panels
from wandb_workspaces import workspaces

from simulmt.training.weights_and_biases import UPDATES

LATENCIES = {"DAL": "test/word/DAL", "AL": "test/word/AL", "AP": "test/word/AP"}
QUALITY = "test/BLEU"
TRAINING = {
    "development BLEU": "valid/BLEU",
    "development DAL": "valid/word/DAL",
    "expected latency": "train/latency",
    "divergence of the heads": "train/variance",
    "negative log-likelihood": "train/nll",
    "lambda in force": "train/lambda",
}
MEDIA = ["test/samples", "test/path", "valid/samples", "valid/curve"]


def dashboard(entity: str, project: str) -> workspaces.Workspace:
    """The workspace, not yet saved."""
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name="simulmt",
        sections=[
            workspaces.Section(
                name="Quality and latency",
                is_open=True,
                panels=[
                    panels.ScatterPlot(
                        title=f"BLEU over {name}",
                        x=panels.SummaryMetric(metric),
                        y=panels.SummaryMetric(QUALITY),
                        z=panels.Config("lambda"),
                    )
                    for name, metric in LATENCIES.items()
                ],
            ),
            workspaces.Section(
                name="Choices",
                is_open=True,
                panels=[
                    panels.ParallelCoordinatesPlot(
                        columns=[
                            panels.ParallelCoordinatesPlotColumn(panels.Config("lambda")),
                            *(
                                panels.ParallelCoordinatesPlotColumn(panels.SummaryMetric(metric))
                                for metric in (LATENCIES["DAL"], QUALITY)
                            ),
                        ]
                    )
                ],
            ),
            workspaces.Section(
                name="Training",
                is_open=True,
                panels=[
                    panels.LinePlot(title=title, x=UPDATES, y=[metric])
                    for title, metric in TRAINING.items()
                ],
            ),
            workspaces.Section(
                name="Translations",
                is_open=True,
                panels=[panels.MediaBrowser(media_keys=[key]) for key in MEDIA],
            ),
        ],
        runset_settings=workspaces.RunsetSettings(
            groupby=[workspaces.Config("mechanism.name")],
        ),
    )


def main() -> int:
    """Save the workspace."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("entity", help="user or team")
    parser.add_argument("project", help="the logger.project of the runs")
    options = parser.parse_args()
    try:
        print(dashboard(options.entity, options.project).save().url)
    except Exception as error:  # whatever the service or the network has to say
        print(f"error: not saved ({error}); wandb login first", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
