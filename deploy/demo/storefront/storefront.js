// The shop's storefront: asks the catalogue and the checkout, and renders pages. Profiled by the agent for Node.js.
//
//     node storefront.js PORT FLAMEGRID_URL POD CATALOGUE_PORTS CHECKOUT_PORTS
//
// GET /?q=WORDS answers with a page of products and a priced cart. PORTS are separated by commas; requests go to all
// of them in turn.
'use strict';
const http = require('node:http');
const Pyroscope = require('@pyroscope/nodejs');

const [port, url, pod, catalogues, checkouts] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true });
const turns = { catalogue: catalogues.split(','), checkout: checkouts.split(',') };
const countries = ['AT', 'BE', 'CH', 'DE', 'DK', 'ES', 'FR', 'IT', 'NL', 'PL', 'SE'];
const VARIANTS = 12; // shops buy every size of a product
let requests = 0;

function next(service) {
  const ports = turns[service];

  return ports[requests % ports.length];
}

function ask(to, method, path, body) {
  return new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port: to, method, path, agent }, (response) => {
      const parts = [];

      response.on('data', (part) => parts.push(part));
      response.on('end', () => {
        try {
          resolve(JSON.parse(Buffer.concat(parts).toString()));
        } catch (fault) {
          reject(fault);
        }
      });
    });

    request.on('error', reject);
    request.end(body);
  });
}

const escaped = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escapeHtml = (text) => String(text).replace(/[&<>"]/g, (character) => escaped[character]);

function renderTemplate(template, values) {
  return template.replace(/\{(\w+)\}/g, (_, name) => escapeHtml(values[name]));
}

function formatPrice(cents) {
  return new Intl.NumberFormat('en-GB', { style: 'currency', currency: 'EUR' }).format(cents / 100);
}

function renderProduct(product) {
  return renderTemplate('<article id="p{id}"><h2>{name}</h2><p>{price}</p></article>',
    { ...product, price: formatPrice(product.cents) });
}

function renderPage(query, products, similar, receipt) {
  const title = renderTemplate('<h1>{query}</h1>', { query });
  const rows = receipt.lines.map((line) => renderTemplate('<tr><td>{text}</td><td>{price}</td></tr>',
    { text: line.text, price: formatPrice(line.cents + line.tax) }));

  return [title, ...products.map(renderProduct), '<aside>', ...similar.map(renderProduct), '</aside><table>', ...rows, '</table>',
    `<footer>${checksum(receipt.signature)}</footer>`].join('\n');
}

function checksum(text) {
  let sum = 0;

  for (let round = 0; round < 200; round++)
    for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) | 0;
  return sum >>> 0;
}

async function serve(query) {
  const products = await ask(next('catalogue'), 'GET', `/search?q=${encodeURIComponent(query)}`);
  const similar = await ask(next('catalogue'), 'GET', `/similar?id=${products[0].id}`);
  const items = [...products, ...similar].flatMap((product) => Array.from({ length: VARIANTS }, (_, variant) => (
    { id: product.id, cents: product.cents + 10 * variant, count: 1 + (variant % 3) })));
  const cart = { items, coupon: requests % 3 === 0 ? 'SAVE15-DEMO' : 'none', country: countries[requests % countries.length] };
  const receipt = await ask(next('checkout'), 'POST', '/price', JSON.stringify(cart));

  return renderPage(query, products, similar, receipt);
}

Pyroscope.init({
  appName: 'storefront', serverAddress: url, flushIntervalMs: 10000, tags: { pod, version: '3.1.0', env: 'demo' },
  wall: { samplingDurationMs: 10000, collectCpuTime: true },
});
Pyroscope.start();
http.createServer((request, response) => {
  requests++;
  serve(new URL(request.url, 'http://shop').searchParams.get('q') || 'oak table').then((page) => {
    response.setHeader('Content-Type', 'text/html; charset=utf-8');
    response.end(page);
  }).catch((fault) => {
    response.statusCode = 502;
    response.end(String(fault));
  });
}).listen(Number(port), '127.0.0.1');
