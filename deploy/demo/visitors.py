"""Visits the shop: visitors.py STOREFRONT_PORT [REQUESTS_PER_SECOND]. More in one minute, fewer in the next, as people do."""

import http.client
import math
import random
import sys
import time

WORDS = ["oak", "walnut", "brass", "lamp", "linen", "velvett", "table", "copper", "candle", "stoool", "marble", "silver", "rack", "pilow"]
DAY_S = 180  # of the shop, from one rush hour to the next


def main():
    port, mean = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 12
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    while True:
        rate = mean * (1 + 0.6 * math.sin(2 * math.pi * time.time() / DAY_S))
        time.sleep(random.expovariate(rate))
        try:
            connection.request("GET", "/?q=" + "+".join(random.sample(WORDS, 2)))
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()
            time.sleep(1)


main()
