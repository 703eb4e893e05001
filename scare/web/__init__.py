"""`scare open`: from files to firmware in a browser, every step a command in a process of its own."""
