"""What tests share: laws, oracles, makers of data, and programs that tests start."""
