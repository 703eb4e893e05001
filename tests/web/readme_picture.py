"""Make docs/open.png, the first step of `scare open` with two dropped files: `python -m tests.web.readme_picture`."""

from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.web.browser_session import serving, visiting
from tests.web.tables import write_messy

PICTURE = Path(__file__).parents[2] / "docs" / "open.png"
WIDTH, MARGIN = 1060, 24  # pixels


def main() -> None:
    """Drop the files of a box, whose clock is an hour ahead, and of a station; save the page in 64 colours."""
    from PIL import Image  # not needed to run tests

    with TemporaryDirectory() as name:
        folder = Path(name)
        sensor, station = write_messy(folder)
        box = sensor.rename(folder / "kitchen_box.csv")
        with serving(folder) as server, visiting(server, folder / "profile", (WIDTH, 1520)) as visitor:
            visitor.begin("PM2.5 in the kitchen")
            visitor.drop(box, station)
            visitor.reads("#clock", "The curves fit best")
            visitor.until("!document.getElementById('next-2').disabled")
            height = visitor.tab.value("document.getElementById('next-2').getBoundingClientRect().bottom")
            metrics = {"width": WIDTH, "height": round(height) + MARGIN, "deviceScaleFactor": 1, "mobile": False}
            visitor.tab.call("Emulation.setDeviceMetricsOverride", **metrics)
            shot = visitor.tab.picture()
    with Image.open(BytesIO(shot)) as image:
        image.convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
