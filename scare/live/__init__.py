"""A fleet calibrated as it reports: what boxes send is checked, journaled, calibrated, published, then acknowledged."""
