"""Races with peers, the problems they run on, and the pages made from their records."""
