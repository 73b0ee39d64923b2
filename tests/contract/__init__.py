"""The contract of an approval: one test for each sentence, through the public doors, on both stores."""
