/** The banner that a service prints after its start, for environments that a test process cannot have. */

import { describe, expect, it } from 'vitest';
import { renderBanner } from '../../src/cli/banner.ts';
import { loadConfig } from '../../src/config.ts';

const URLS = { api_url: 'http://127.0.0.1:8000', gateway_url: 'http://127.0.0.1:8787', owner_token: null };
const SURROUNDINGS = {
  is_terminal: true,
  has_color: false,
  cwd: '/home/me/understudy',
  exec_path: '/usr/bin/node',
  entry: '/home/me/understudy/src/cli/understudy.mjs',
};

function banner(env: NodeJS.ProcessEnv, surroundings: Partial<typeof SURROUNDINGS> = {}) {
  const config = loadConfig({ listener: 'gateway' }, { DATA_DIR: '/home/me/understudy/data', ...env });
  return renderBanner(config, URLS, { ...SURROUNDINGS, ...surroundings });
}

describe('the banner', () => {
  it('shows paths below the working directory in relative form', () => {
    expect(banner({})).toContain('\n  npx understudy-gateway inspect --db data/capture.mdb\n');
    expect(banner({}, { cwd: '/srv' })).toContain('--db /home/me/understudy/data/capture.mdb\n');
  });

  it('starts its commands with npx if npx installed the running Node only temporarily', () => {
    const exec_path = '/home/me/.npm/_npx/0123456789abcdef/node_modules/node/bin/node';
    expect(banner({}, { exec_path })).toContain(
      '\n  npx -y -p node@22 -c "node src/cli/understudy.mjs inspect --db data/capture.mdb"\n',
    );
  });

  it('marks headings if the terminal shows colours, and changes nothing else', () => {
    const colored = banner({}, { has_color: true });
    expect(colored).toContain('\u001b[1mPoint an agent at the gateway:\u001b[22m');
    expect(colored.replace(/\u001b\[\d+m/g, '')).toBe(banner({}));
  });

  it('shows the chosen threads', () => {
    const { cores, server_threads, actor_threads } = loadConfig({ listener: 'gateway' }, {});
    const chosen = `${server_threads} server, ${actor_threads} actor, on ${cores} core`;
    expect(banner({})).toContain(`\n  Threads   ${chosen}`);
    expect(banner({ SERVER_THREADS: '5', ACTOR_THREADS: '3' })).toContain(
      '\n  Threads   5 server, 3 actor, on ',
    );
  });

  it('says when nothing is captured', () => {
    const text = banner({ GW_CAPTURE: 'off' });
    expect(text).toContain('Nothing is captured');
    expect(text).not.toMatch(/inspect|capture database/);
  });

  it('links to the dashboard, with the token of the owner if there is one', () => {
    expect(banner({})).toContain('\nDashboard:\n  http://127.0.0.1:8000/\n');
    const signed = renderBanner(
      loadConfig({ listener: 'gateway' }, {}),
      { ...URLS, owner_token: 'a.b.c' },
      SURROUNDINGS,
    );
    expect(signed).toContain('\n  http://127.0.0.1:8000/#token=a.b.c\n');
  });

  it('shows no token without a terminal, and says how to get one', () => {
    const piped = (data_dir: string) => {
      const config = loadConfig({ listener: 'gateway' }, { DATA_DIR: data_dir });
      const urls = { ...URLS, owner_token: 'a.b.c' };
      return renderBanner(config, urls, { ...SURROUNDINGS, is_terminal: false });
    };
    const text = piped('/home/me/understudy/data');
    expect(text).not.toContain('a.b.c');
    expect(text).toContain('\n  http://127.0.0.1:8000/\n');
    expect(text).toContain('\n  npx understudy-gateway token --owner\n');
    expect(piped('/srv/my data')).toContain(
      "\n  DATA_DIR='/srv/my data' npx understudy-gateway token --owner\n",
    );
  });

  it('names the folder in which the proxy stores its authority', () => {
    const proxied = { ...URLS, proxy_url: 'http://127.0.0.1:8788' };
    const render = (DATA_DIR: string) =>
      renderBanner(loadConfig({ listener: 'gateway' }, { DATA_DIR }), proxied, SURROUNDINGS);
    expect(render('/home/me/understudy/data')).toContain('needs: npx understudy-gateway proxy --trust)');
    expect(render('/srv/data')).toContain('needs: DATA_DIR=/srv/data npx understudy-gateway proxy --trust)');
  });

  it('links to the public address if there is one', () => {
    const text = banner({ PUBLIC_URL: 'https://understudy.example.com' });
    expect(text).toContain('\nDashboard:\n  https://understudy.example.com/\n');
    expect(text).toContain('  API       http://127.0.0.1:8000\n');
  });

  it('says who may answer instead of the upstream', () => {
    const env = { SVC_DISTILL_DIR: '/home/me/understudy/student' };
    expect(banner(env)).toContain('\n  Student   student  (serves what it has mastered)\n');
    expect(banner({ ...env, GW_RELEGATION: 'shadow' })).toContain('serves nothing)\n');
    expect(banner({ ...env, GW_RELEGATION: 'off' })).not.toContain('Student');
  });
});
