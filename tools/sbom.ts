/**
 * `npm run sbom [FILE]`: writes the bill of materials of the shipped packages to `understudy.cdx.json` or FILE, as
 * CycloneDX in JSON. npm makes it from the lock file, without the network. This script removes fields that differ
 * between runs (time, random number, name of the folder, npm's version), and adds the hashes of uWebSockets.js's
 * binaries, which the lock file does not contain.
 */

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
// @ts-expect-error plain JavaScript, for Nodes that strip no types
import { readHashes } from '../native/uwebsockets-binary.mjs';

interface Component {
  name: string;
  'bom-ref': string;
  hashes?: { alg: string; content: string }[];
  components?: Component[];
  properties?: Property[];
  type: string;
}

interface Property {
  name: string;
  value: string;
}

interface Bom {
  serialNumber: string;
  metadata: { timestamp?: string; tools?: unknown; component: Component };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

const root = fileURLToPath(new URL('../', import.meta.url));
const target = process.argv[2] ?? fileURLToPath(new URL('../understudy.cdx.json', import.meta.url));

// The service does not ship the packages that agents install.
const ARGUMENTS = [
  'sbom',
  '--sbom-format',
  'cyclonedx',
  '--package-lock-only',
  '--offline',
  '--workspaces=false',
];
const { status, stdout, stderr, error } = spawnSync('npm', ARGUMENTS, { cwd: root, encoding: 'utf8' });
if (error !== undefined) throw error;
if (status !== 0) {
  process.stderr.write(stderr);
  process.exit(1);
}

const bom = JSON.parse(stdout) as Bom;
bom.metadata.component.name = 'understudy-gateway';
delete bom.metadata.timestamp;
delete bom.metadata.tools;
// `npm sbom --omit dev` would also omit packages that development and a shipped package need. So development packages
// are removed here.
bom.components = bom.components.filter(({ properties = [] }) => !properties.some(isOfDevelopment));
const shipped = new Set([
  bom.metadata.component['bom-ref'],
  ...bom.components.map((component) => component['bom-ref']),
]);
bom.dependencies = bom.dependencies.filter(({ ref }) => shipped.has(ref));
for (const dependency of bom.dependencies)
  dependency.dependsOn = dependency.dependsOn.filter((ref) => shipped.has(ref));
const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
bom.components.sort((a, b) => byText(a['bom-ref'], b['bom-ref']));
bom.dependencies.sort((a, b) => byText(a.ref, b.ref));
for (const { dependsOn } of bom.dependencies) dependsOn.sort(byText);

const list = readFileSync(new URL('../native/uwebsockets.sha256', import.meta.url), 'utf8');
for (const [path, content] of readHashes(list) as Map<string, string>) {
  const at = path.lastIndexOf('/');
  const owner = bom.components.find(({ name }) => name === path.slice(0, at));
  if (owner === undefined)
    throw new Error(`native/uwebsockets.sha256 lists ${path}, which is not in the lock file`);
  const name = path.slice(at + 1);
  owner.components = [
    { 'bom-ref': `${owner['bom-ref']}#${name}`, type: 'file', name, hashes: [{ alg: 'SHA-256', content }] },
  ];
}

// The serial number is made from the content, as a UUID of version 8 (RFC 9562, 5.8).
bom.serialNumber = '';
const digits = createHash('sha256').update(JSON.stringify(bom)).digest('hex');
const uuid = `${digits.slice(0, 8)}-${digits.slice(8, 12)}-8${digits.slice(13, 16)}-a${digits.slice(17, 20)}-${digits.slice(20, 32)}`;
bom.serialNumber = `urn:uuid:${uuid}`;
writeFileSync(target, `${JSON.stringify(bom, null, 2)}\n`);

function isOfDevelopment({ name, value }: Property): boolean {
  return name === 'cdx:npm:package:development' && value === 'true';
}
