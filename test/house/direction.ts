/** The import rules as data, and the function that checks a tree against them. */

import { posix } from 'node:path';
import { readModule } from './imports.ts';

/**
 * A room: a part of the tree with its own import rules. Files directly under `src/` and the two entries of `actors/`
 * are distinguished by name.
 */
type Room =
  | 'native'
  | 'std'
  | 'limits'
  | 'errors'
  | 'config'
  | 'log'
  | 'redaction'
  | 'key shapes'
  | 'domain'
  | 'contract'
  | 'http'
  | 'api'
  | 'gateway'
  | 'providers'
  | 'student model'
  | 'student directory'
  | 'student serving'
  | 'storage'
  | 'lmdb'
  | 'postgres'
  | 'accounts'
  | 'ports'
  | 'search'
  | 'auth'
  | 'billing'
  | 'alerts'
  | 'client'
  | 'label'
  | 'mcp'
  | 'otel'
  | 'export'
  | 'integrations'
  | 'hooks'
  | 'dashboard'
  | 'runtime'
  | 'captures'
  | 'replay'
  | 'teaching'
  | 'actors'
  | 'actor clients'
  | 'threads'
  | 'proxy'
  | 'main'
  | 'cli'
  | 'demo'
  | 'bench';

/** For each room, the other rooms from which its files may import. */
const MAY_IMPORT: Record<Room, readonly Room[]> = {
  // Native code for bytes and sockets, and its fallback in TypeScript. The fallback reads the table of key shapes,
  // from which a header of the addon is generated.
  native: ['key shapes'],
  std: [],
  limits: [],
  errors: [],
  config: ['std', 'limits', 'domain'],
  log: ['std'],
  // The table of key shapes, and the search for the beginnings of keys.
  'key shapes': [],
  // Which parts of a text may be stored.
  redaction: ['native', 'key shapes', 'std'],
  domain: ['native', 'redaction', 'std', 'limits', 'errors'],
  contract: ['std', 'limits', 'errors', 'domain'],
  http: ['native', 'std', 'redaction', 'limits', 'errors', 'contract'],
  // The proxy for HTTPS_PROXY. It decrypts requests and forwards them to the gateway, over loopback.
  proxy: ['std', 'limits', 'domain'],
  auth: ['std', 'limits', 'errors', 'domain'],
  billing: ['limits', 'errors'],
  // Checks measures that operators watch, and sends messages.
  alerts: ['std', 'domain'],
  api: [
    'std',
    'limits',
    'errors',
    'domain',
    'contract',
    'http',
    'auth',
    'accounts',
    'alerts',
    'mcp',
    'otel',
    'export',
    'actor clients',
  ],
  // The client library, which agents' own processes use to call the API.
  client: ['std'],
  // Labels an agent's requests. It is loaded into the agent's process, so it may import nothing of the service.
  label: [],
  // The integrations with agent frameworks.
  integrations: ['std', 'client'],
  // The API as tools of an agent: at the API's own address, and as a command that calls it remotely.
  mcp: ['limits', 'domain', 'contract', 'client'],
  // OpenTelemetry's protocol, incoming and outgoing.
  otel: ['std', 'domain', 'providers'],
  // Writes lists as CSV and Parquet files.
  export: [],
  // The commands that an agent's client calls at each event, as separate processes.
  hooks: ['std', 'client'],
  // Runs in a browser. It imports only the types of the API's answers, and words that the command line also uses; the
  // bundle includes only what it needs.
  dashboard: ['domain'],
  gateway: [
    'native',
    'redaction',
    'std',
    'limits',
    'errors',
    'domain',
    'http',
    'student serving',
    'providers',
  ],
  // Decoders are pure: the capture process and the command line read stored bodies with them.
  providers: ['std', 'limits', 'domain'],
  // What a student has learned, and where it is stored.
  'student model': ['redaction', 'std', 'limits', 'domain'],
  'student directory': ['std', 'domain', 'student model'],
  // Answers in the upstream's place: used by the student's thread and, to measure it, by the command line.
  'student serving': ['std', 'limits', 'domain', 'providers', 'student model'],
  // A journal throws an error of the runtime if its store is unreachable.
  storage: ['native', 'redaction', 'key shapes', 'std', 'limits', 'domain', 'lmdb', 'accounts', 'runtime'],
  // Interchangeable stores. Code that uses tables and journals imports only their interfaces. Only code that opens a
  // store imports `lmdb` or `postgres`.
  lmdb: ['std', 'domain', 'storage'],
  postgres: ['std', 'storage'],
  // Interfaces that the parts of the product need from a store.
  ports: [],
  // The tables of users and organizations. This room imports the interface of tables, but no database.
  accounts: ['std', 'limits', 'errors', 'domain'],
  search: ['native', 'std', 'limits', 'errors'],
  runtime: ['std'],
  // Reads capture databases, for the dashboard and the command line.
  captures: ['std', 'limits', 'domain', 'providers', 'storage', 'lmdb', 'accounts'],
  // Serves a captured run again, acting as a provider.
  replay: ['std', 'domain', 'providers', 'captures'],
  // Produces students and patterns from golden runs. A round measures a student with the code that serves.
  teaching: [
    'std',
    'limits',
    'config',
    'domain',
    'providers',
    'captures',
    'student model',
    'student directory',
    'student serving',
    'storage',
    'search',
  ],
  // Native code for memory that threads and processes share, because V8 copies into such memory word by word and cannot
  // create the kind that processes share.
  actors: ['native', 'redaction', 'std', 'errors', 'domain', 'runtime', 'actor clients'],
  'actor clients': ['std', 'errors', 'domain', 'runtime', 'actors'],
  // Composition: assembles the parts, with an entry for each thread and process.
  threads: [
    'native',
    'redaction',
    'std',
    'limits',
    'errors',
    'config',
    'log',
    'domain',
    // The relations between bounds.
    'contract',
    'http',
    'api',
    'alerts',
    'auth',
    'billing',
    'gateway',
    'providers',
    'proxy',
    'student model',
    'student directory',
    'student serving',
    'storage',
    'lmdb',
    'postgres',
    'accounts',
    'search',
    'runtime',
    'captures',
    'teaching',
    'otel',
    'actors',
    'actor clients',
  ],
  main: ['std', 'config', 'log', 'http', 'auth', 'storage', 'lmdb', 'actors', 'actor clients', 'threads'],
  cli: [
    'std',
    'limits',
    'config',
    'domain',
    'contract',
    'auth',
    'providers',
    'proxy',
    'student model',
    'student directory',
    'student serving',
    'storage',
    'lmdb',
    'postgres',
    'accounts',
    'search',
    'captures',
    'replay',
    'teaching',
    'mcp',
    'otel',
    'export',
    'hooks',
    'main',
  ],
  demo: ['std', 'config', 'main', 'cli'],
  // Measures the whole service from the outside, or single parts.
  bench: [
    'std',
    'config',
    'domain',
    'contract',
    'providers',
    'captures',
    // The evaluation calibrates like a round.
    'teaching',
    'student model',
    'student directory',
    'student serving',
    'storage',
    'lmdb',
    'search',
    'runtime',
    'actors',
    'actor clients',
    'client',
    'label',
    'demo',
  ],
};

/** For each room, the rooms from which its files may import only types. These imports disappear at run time. */
const MAY_IMPORT_TYPES: Partial<Record<Room, readonly Room[]>> = {
  client: ['domain'],
  dashboard: ['contract', 'domain'],
  http: [],
  api: ['config', 'storage', 'ports', 'search', 'runtime', 'billing'],
  auth: ['config', 'ports'],
  gateway: [],
  alerts: ['ports'],
  captures: [],
  teaching: [],
  // The interface of a bucket, from which several gateways get the same student.
  'student directory': ['storage'],
  // Storage implements the runtime's interface of a journal.
  lmdb: ['runtime', 'ports'],
  storage: ['ports'],
  ports: ['domain'],
  accounts: ['storage', 'ports', 'runtime'],
  cli: ['ports'],
  threads: ['ports'],
  actors: ['storage', 'ports', 'search'],
  'actor clients': ['ports'],
};

/**
 * The tables of a store. Apart from storage itself, only these files import them: the file that passes them to actors,
 * and the pattern index, which has its own rows. All other code uses a port.
 */
const TABLES = 'src/storage/tables.ts';
const TABLE_ROOMS: readonly Room[] = ['storage', 'lmdb', 'postgres', 'accounts'];
const TABLE_USERS: readonly string[] = [
  'src/threads/actor-thread-entry.ts',
  'actors/pattern-index/store-parts.ts',
  'actors/pattern-index/removal.ts',
];

/** Packages that only some rooms may import. */
const PACKAGE_ROOMS: Readonly<Record<string, readonly Room[]>> = {
  'uWebSockets.js': ['http', 'bench'],
  lmdb: ['storage', 'lmdb'],
  '@aws-sdk/client-s3': ['storage'],
  pg: ['postgres', 'bench'],
  undici: ['student serving', 'search', 'otel', 'replay', 'bench'],
  // native/compile.mjs uses its headers; the package is not loaded.
  'hnswlib-node': [],
  'onnxruntime-node': ['search'],
  '@huggingface/tokenizers': ['search'],
  jose: ['auth'],
  '@modelcontextprotocol/server': ['mcp'],
  '@bufbuild/protobuf': ['otel'],
  stripe: ['billing'],
  nodemailer: ['alerts'],
  'prom-client': ['api'],
  'hyparquet-writer': ['export'],
  jstat: ['domain', 'student model'],
  '@peculiar/x509': ['proxy'],
  'reflect-metadata': ['proxy'],
  piscina: ['runtime', 'threads'],
  comlink: ['runtime', 'threads'],
  pino: ['log'],
  preact: ['dashboard'],
  '@preact/signals': ['dashboard'],
  uplot: ['dashboard'],
};

const KEY_SHAPE_FILES = new Set(
  ['escapes', 'key-beginnings', 'key-shapes'].map((name) => `src/redaction/${name}.ts`),
);
/** Files that may read process.env themselves, because an agent's process does not load src/config.ts. */
const AGENT_ENVIRONMENTS = new Set([
  'src/client/environment.ts',
  'src/client/edge/environment.ts',
  'src/label/environment.ts',
]);
/** Rooms of one file. `config` is a file and the folder of its sections. */
const OWN_FILES = new Set(['limits', 'errors', 'log', 'main']);

/** @param file path from the root of the repository @returns its room; undefined if the rules name none for it */
function roomOf(file: string): Room | undefined {
  if (KEY_SHAPE_FILES.has(file)) return 'key shapes';
  if (file.startsWith('src/student/model/')) return 'student model';
  if (file.startsWith('src/student/serving/')) return 'student serving';
  if (/^src\/student\/[\w-]+\.ts$/.test(file)) return 'student directory';
  if (file.startsWith('src/storage/accounts/')) return 'accounts';
  if (file.startsWith('src/storage/ports/')) return 'ports';
  if (file.startsWith('src/storage/lmdb/')) return 'lmdb';
  if (file.startsWith('src/storage/postgres/')) return 'postgres';
  if (/^actors\/[\w-]+\/client\.ts$/.test(file)) return 'actor clients';
  if (file.startsWith('actors/')) return 'actors';
  if (file.startsWith('native/')) return 'native';
  if (file.startsWith('bench/')) return 'bench';
  const [, name = ''] = /^src\/([\w-]+)(?:\/|\.ts$)/.exec(file) ?? [];
  const isInFolder = file.startsWith(`src/${name}/`);
  if (isInFolder ? OWN_FILES.has(name) : !OWN_FILES.has(name) && name !== 'config') return undefined;
  return Object.hasOwn(MAY_IMPORT, name) ? (name as Room) : undefined;
}

/**
 * @param files every source file by its name relative to the repository
 * @returns a line for each entry of the tables above that no import needs
 */
export function findUnusedAllowances(files: ReadonlyMap<string, string>): string[] {
  const values = new Set<string>();
  const types = new Set<string>();
  const packages = new Set<string>();
  const tableUsers = new Set<string>();
  for (const [file, source] of files) {
    const room = roomOf(file);
    if (room === undefined) continue;
    for (const { specifier, is_type_only } of readModule(source, file).imports) {
      if (!specifier.startsWith('.')) {
        packages.add(`${room} -> ${packageOf(specifier)}`);
        continue;
      }
      const target = posix.join(posix.dirname(file), specifier);
      if (target === TABLES) tableUsers.add(file);
      const other = roomOf(target);
      (is_type_only ? types : values).add(`${room} -> ${other}`);
    }
  }
  const isImported = (edge: string) => values.has(edge) || types.has(edge);
  return [
    ...edgesOf(MAY_IMPORT).filter((edge) => !isImported(edge)),
    ...edgesOf(MAY_IMPORT_TYPES).filter((edge) => !types.has(edge)),
    ...TABLE_USERS.filter((file) => !tableUsers.has(file)),
    ...Object.entries(PACKAGE_ROOMS).flatMap(([name, rooms]) =>
      rooms.map((room) => `${room} -> ${name}`).filter((edge) => !packages.has(edge)),
    ),
  ];
}

function edgesOf(table: Partial<Record<Room, readonly Room[]>>): string[] {
  return Object.entries(table).flatMap(([room, others]) => others.map((other) => `${room} -> ${other}`));
}

function packageOf(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
}

/**
 * @param files every source file by its name relative to the repository, `/` between folders
 * @returns violations, one line each; empty without violations
 */
export function findViolations(files: ReadonlyMap<string, string>): string[] {
  const violations: string[] = [];
  const edges = new Map<string, string[]>();
  for (const [file, source] of files) {
    const room = roomOf(file);
    if (room === undefined) {
      violations.push(`${file}: no room of the tree has this name`);
      continue;
    }
    const { imports, reads_env, has_header } = readModule(source, file);
    if (!has_header) violations.push(`${file}: does not begin with a doc comment`);
    if (reads_env && file !== 'src/config.ts' && room !== 'bench' && !AGENT_ENVIRONMENTS.has(file))
      violations.push(`${file}: reads process.env, which src/config.ts alone does`);
    const targets: string[] = [];
    for (const { specifier, is_type_only } of imports) {
      // Data beside the module that reads it; the compiler checks that the file exists.
      if (/^\.\/[\w-]+\.json$/.test(specifier)) continue;
      if (specifier.startsWith('.')) {
        const target = posix.join(posix.dirname(file), specifier);
        violations.push(...judgeEdge(file, room, target, is_type_only, files));
        targets.push(target);
      } else {
        violations.push(...judgePackage(file, room, specifier));
      }
    }
    edges.set(file, targets);
  }
  return [...violations, ...findCycles(edges)];
}

function judgeEdge(
  file: string,
  room: Room,
  target: string,
  isTypeOnly: boolean,
  files: ReadonlyMap<string, string>,
): string[] {
  if (!files.has(target)) return [`${file}: imports ${target}, which is not in the tree`];
  const other = roomOf(target);
  if (target === TABLES && !TABLE_ROOMS.includes(room) && !TABLE_USERS.includes(file))
    return [`${file}: only storage knows tables; ask a port of src/storage/ports`];
  const [fileActor, targetActor] = [actorOf(file), actorOf(target)];
  if (
    other === 'actors' &&
    fileActor !== undefined &&
    targetActor !== undefined &&
    fileActor !== targetActor
  ) {
    return [`${file}: actors are called through their client alone (${target})`];
  }
  if (other === undefined || other === room || MAY_IMPORT[room].includes(other)) return [];
  if (isTypeOnly && MAY_IMPORT_TYPES[room]?.includes(other)) return [];
  return [`${file}: ${room} may not import ${isTypeOnly ? 'types of ' : ''}${other} (${target})`];
}

/** The actor whose folder the file lies in. */
function actorOf(file: string): string | undefined {
  return /^actors\/([\w-]+)\//.exec(file)?.[1];
}

function judgePackage(file: string, room: Room, specifier: string): string[] {
  if (specifier.startsWith('node:')) return [];
  const name = packageOf(specifier);
  const rooms = PACKAGE_ROOMS[name];
  return rooms === undefined || rooms.includes(room)
    ? []
    : [`${file}: ${name} lives in ${rooms.length === 0 ? 'no room' : `${rooms.join(' and ')} alone`}`];
}

/**
 * Cycles of imports, including imports of types. Each is reported once, beginning with its alphabetically first file.
 */
function findCycles(edges: ReadonlyMap<string, readonly string[]>): string[] {
  const cycles = new Set<string>();
  const finished = new Set<string>();
  const walk = (file: string, trail: readonly string[]): void => {
    const start = trail.indexOf(file);
    if (start >= 0) {
      const circle = trail.slice(start);
      const first = circle.indexOf([...circle].sort()[0]!);
      cycles.add(`circle: ${[...circle.slice(first), ...circle.slice(0, first + 1)].join(' -> ')}`);
      return;
    }
    if (finished.has(file)) return;
    for (const target of edges.get(file) ?? []) walk(target, [...trail, file]);
    finished.add(file);
  };
  for (const file of edges.keys()) walk(file, []);
  return [...cycles];
}
