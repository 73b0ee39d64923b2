"""The contract of an approval: one test for each sentence, through the public endpoints, on both stores."""
