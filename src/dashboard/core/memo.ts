/** A component that is drawn again only if one of its properties has changed. Browser. */
import { Component, type ComponentType, type FunctionComponent, h } from 'preact';

export function memo<Props extends object>(draw: FunctionComponent<Props>): ComponentType<Props> {
  return class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Readonly<Props>): boolean {
      const before = this.props as Record<string, unknown>;
      const after = next as Record<string, unknown>;
      return Object.keys({ ...before, ...after }).some((name) => before[name] !== after[name]);
    }

    override render() {
      return h(draw as FunctionComponent<object>, this.props);
    }
  };
}
