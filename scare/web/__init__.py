"""`scare open`: from files to firmware in a browser; every step is a command that runs in a separate process."""
