"""`python -m scare` is `scare`."""

from scare.cli import main

if __name__ == "__main__":
    main()
