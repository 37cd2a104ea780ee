/* The flame graph as a list that opens: rows for a tree grid, children by weight. */
import { type Flame } from "./model";

export class CallTree {
  private readonly open = new Set<number>();

  constructor(readonly flame: Flame) {
    if (flame.count > 0) this.openHot(0);
  }

  isOpen(node: number): boolean {
    return this.open.has(node);
  }

  hasChildren(node: number): boolean {
    return this.flame.child[node]! < this.flame.child[node + 1]!;
  }

  toggle(node: number): void {
    if (!this.open.delete(node) && this.hasChildren(node)) this.open.add(node);
  }

  /* Opens a node, and below it the heaviest child as long as it has most of its parent's weight. */
  openHot(node: number): void {
    let at = node;
    while (this.hasChildren(at)) {
      this.open.add(at);
      const heaviest = this.childrenOf(at)[0]!;
      if (this.flame.w[heaviest]! < this.flame.w[at]! / 2) return;
      at = heaviest;
    }
  }

  /* Opens all nodes above one, so that it is among the rows. */
  reveal(node: number): void {
    for (let at = this.flame.parent[node]!; at >= 0; at = this.flame.parent[at]!) this.open.add(at);
  }

  closeAll(): void {
    this.open.clear();
  }

  childrenOf(node: number): number[] {
    const children: number[] = [];
    for (let at = this.flame.child[node]!; at < this.flame.child[node + 1]!; at++) children.push(at);
    return children.sort((a, b) => this.flame.w[b]! - this.flame.w[a]! || a - b);
  }

  /* The nodes that are shown, in order. Their depth is their level. */
  rows(): number[] {
    const rows: number[] = [];
    if (this.flame.count === 0) return rows;
    const stack = [0];
    for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
      rows.push(node);
      if (!this.open.has(node)) continue;
      const children = this.childrenOf(node);
      for (let i = children.length - 1; i >= 0; i--) stack.push(children[i]!);
    }
    return rows;
  }
}
