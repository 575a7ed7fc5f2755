"""`make evidence`: run everything that tries to break Postdate, and write down the results."""
