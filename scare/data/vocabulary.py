"""The words that files use, in many languages: the lists of `vocabulary.toml`, whose header explains them.

Used by whatever recognises cells and columns: `cells`, `time_text`, `time_zones`, `packed_files`, `column_kind` and
`column_guess`.
"""

from pathlib import Path

from scare.schema import load_toml

VOCABULARY = load_toml(Path(__file__).with_name("vocabulary.toml"))
