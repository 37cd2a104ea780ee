"""The shop's catalogue: finds products by words and ranks them. Profiled by the agent for Python.

    catalogue.py PORT FLAMEGRID_URL POD

GET /search?q=WORDS answers with the ten best products as JSON; GET /similar?id=N with products that share words.
"""

import json
import math
import random
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pyroscope

WORDS = """amber ash basin beam birch bolt brass bronze canvas cedar chalk chrome clay coal cobalt copper coral cork cotton cream
crystal denim ebony elm enamel felt flax flint fir fleece glass gold granite hazel hemp iron ivory jade jet lace larch lead leather
lime linen lint maple marble mint moss nickel oak oat ochre olive onyx opal paper pearl pine plaster plum quartz reed resin rose
ruby rust sable sage sand satin shell silk silver slate steel stone straw suede tin topaz tweed velvet walnut wax wicker willow wool
zinc bench bowl box broom brush bucket candle chair clock cup desk drawer fork frame hook jar jug kettle knife lamp mirror mug
needle pan pen pillow plate pot rack rug shelf spoon stool table tray vase""".split()
PRODUCTS = 1200


def make_products():
    chance = random.Random(7)
    return [" ".join(chance.sample(WORDS, 8)) for _ in range(PRODUCTS)]


class Catalogue:
    def __init__(self):
        self.products = make_products()
        self.tokens = [tokenize(text) for text in self.products]
        self.rarity = {word: math.log(PRODUCTS / (1 + sum(word in tokens for tokens in self.tokens))) for word in WORDS}

    def search(self, query):
        words = [closest_word(word) for word in tokenize(query)]
        scored = [(self.score(words, number), number) for number in range(PRODUCTS)]
        return [self.describe(number) for _, number in sorted(scored, reverse=True)[:10]]

    def score(self, words, number):
        tokens = self.tokens[number]
        return sum(self.rarity[word] / (1 + tokens.index(word)) for word in words if word in tokens)

    def similar(self, number):
        own = set(self.tokens[number])
        common = sorted(((len(own & set(tokens)), other) for other, tokens in enumerate(self.tokens)), reverse=True)
        return [self.describe(other) for _, other in common[1:6]]

    def describe(self, number):
        return {"id": number, "name": self.products[number].title(), "cents": 199 + 37 * (number % 250)}


def tokenize(text):
    return [word for word in "".join(c if c.isalnum() else " " for c in text.lower()).split() if word]


def closest_word(word):
    """Returns the word of the catalogue with the least edit distance, so that visitors may mistype."""
    if word in WORDS:
        return word
    return min(WORDS, key=lambda known: edit_distance(word, known))


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    catalogue = Catalogue()

    def do_GET(self):
        parts = urlsplit(self.path)
        parameters = parse_qs(parts.query)
        with pyroscope.tag_wrapper({"route": parts.path}):
            if parts.path == "/similar":
                found = self.catalogue.similar(int(parameters["id"][0]) % PRODUCTS)
            else:
                found = self.catalogue.search(parameters.get("q", [""])[0])
            body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    port, url, pod = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    pyroscope.configure(application_name="catalogue", server_address=url, sample_rate=100, oncpu=True, upload_interval=10,
                        tags={"pod": pod, "version": "2.0.3", "env": "demo"})
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


main()
