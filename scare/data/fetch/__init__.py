"""Other people's readings: archives on the web and downloaded files become one folder of Parquet, a device each."""
