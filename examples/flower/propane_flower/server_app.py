# SPDX-License-Identifier: MIT
"""The server: what it does follows from the run's configuration (pyproject.toml, flwr run --run-config)."""
import propane_ml.flower as flower

app = flower.server_app()
