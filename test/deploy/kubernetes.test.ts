/**
 * deploy/kubernetes/understudy-scale.yaml: its references are valid, and it routes as Caddyfile-scale does. Test
 * thread.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { VARIABLE_DEFAULTS } from '../../src/config.ts';
import { makeFolder } from '../storage/folder.ts';

const read = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../../deploy/${name}`, import.meta.url)), 'utf8');

// biome-ignore lint/suspicious/noExplicitAny: a manifest of Kubernetes
const documents: any[] = parseAllDocuments(read('kubernetes/understudy-scale.yaml')).map((text) =>
  text.toJS(),
);
const ofKind = (kind: string) => documents.filter((document) => document.kind === kind);
const find = (kind: string, name: string) => ofKind(kind).find(({ metadata }) => metadata.name === name);
const workloads = [...ofKind('StatefulSet'), ...ofKind('Deployment'), ...ofKind('Job')];
const boxes = ofKind('StatefulSet');

it('services, budgets and policies select the pods of a workload', () => {
  const selectors = [
    ...ofKind('Service').map(({ spec }) => spec.selector),
    ...ofKind('PodDisruptionBudget').map(({ spec }) => spec.selector.matchLabels),
    ...ofKind('NetworkPolicy').map(({ spec }) => spec.podSelector.matchLabels),
  ];
  expect(selectors).toHaveLength(9);
  for (const selector of selectors)
    expect(workloads.map(({ spec }) => spec.template.metadata.labels)).toContainEqual(
      expect.objectContaining(selector),
    );
  for (const { spec } of boxes) expect(find('Service', spec.serviceName).spec.clusterIP).toBe('None');
});

it('ports of services and probes are ports of the pods', () => {
  for (const { spec } of ofKind('Service')) {
    const pods = workloads.find(
      (workload) =>
        workload.spec.template.metadata.labels['app.kubernetes.io/component'] ===
        spec.selector['app.kubernetes.io/component'],
    );
    const ports = pods.spec.template.spec.containers[0].ports;
    for (const { port, targetPort } of spec.ports)
      expect(ports).toContainEqual({ name: targetPort, containerPort: port });
  }
});

it('pods run without privileges, have time to end after the notice of their stop, and set existing variables', () => {
  for (const { spec } of workloads) {
    const pod = spec.template.spec;
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    });
    for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      for (const { name } of container.volumeMounts)
        expect([
          ...pod.volumes,
          ...(spec.volumeClaimTemplates ?? []).map((claim: { metadata: object }) => claim.metadata),
        ]).toContainEqual(expect.objectContaining({ name }));
    }
  }
  for (const { spec } of boxes) {
    const [{ env, readinessProbe }] = spec.template.spec.containers;
    for (const { name } of env) expect(VARIABLE_DEFAULTS.has(name), name).toBe(true);
    const notice_ms = Number(env.find(({ name }: { name: string }) => name === 'STOP_NOTICE_MS').value);
    expect(spec.template.spec.terminationGracePeriodSeconds * 1_000).toBeGreaterThanOrEqual(
      notice_ms + 40_000,
    );
    // The readiness probe notices the stop before the listener closes.
    expect(readinessProbe.periodSeconds * 1_000).toBeLessThan(notice_ms);
  }
});

it('the captures of a gateway stay when its pod is removed', () => {
  const { spec } = find('StatefulSet', 'understudy-gateway');
  expect(spec.persistentVolumeClaimRetentionPolicy).toEqual({ whenDeleted: 'Retain', whenScaled: 'Retain' });
  expect(spec.volumeClaimTemplates[0].metadata.name).toBe('data');
});

describe('the balancer', () => {
  const text: string = find('ConfigMap', 'understudy-balancer').data.Caddyfile;

  it('chooses boxes as deploy/Caddyfile-scale does', () => {
    const rules = (caddyfile: string) =>
      caddyfile
        .split('\n')
        .map((line) => line.trim())
        .filter((line) =>
          /^(?:@|path |not path |request_header |respond @|lb_policy |fallback |header_up )/.test(line),
        );
    expect(rules(text)).toEqual(rules(read('Caddyfile-scale')));
    expect(rules(text).length).toBeGreaterThan(10);
  });

  it('finds the boxes by the names of their services', () => {
    for (const name of ['understudy-api-boxes', 'understudy-gateway-boxes']) {
      const { spec } = find('Service', name);
      expect(text).toContain(`import boxes ${name} ${spec.ports[0].port}`);
    }
  });

  const hasCaddy = spawnSync('caddy', ['version']).status === 0;
  it.skipIf(!hasCaddy)('is valid for Caddy, where that is installed', () => {
    const folder = makeFolder();
    writeFileSync(join(folder, 'Caddyfile'), text);
    const env = { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder };
    const argv = ['validate', '--adapter', 'caddyfile', '--config', join(folder, 'Caddyfile')];
    const { status, stderr } = spawnSync('caddy', argv, { encoding: 'utf8', env });
    expect(status, stderr).toBe(0);
  });
});
