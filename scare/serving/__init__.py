"""What our servers share: who may ask, and answering in a thread."""
