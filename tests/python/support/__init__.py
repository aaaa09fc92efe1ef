"""What tests share: lakes, projects made for them, streams of events, real sources, soak runs."""
