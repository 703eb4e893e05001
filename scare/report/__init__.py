"""Results as things people like to look at: figures and one offline page."""
