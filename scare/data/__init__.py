"""Where readings come from: files, other people's archives, a simulator; joined, checked, split."""
