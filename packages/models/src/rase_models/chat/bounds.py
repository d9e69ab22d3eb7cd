"""Rewriting a parsed template so that what the sandbox cannot see is counted too.

Loops, `~`, slices, comparisons and dict keys compile to plain Python; each becomes a call of the environment.
So do lists that a template writes, which it may add to, unlike those that it is given.
"""

from jinja2 import Environment, nodes
from jinja2.visitor import NodeTransformer


def bound(template: nodes.Template, environment: Environment) -> nodes.Template:
    """Return the template with what the sandbox cannot see counted, and its own lists marked."""
    template = _Bounds().visit(template)
    template.set_environment(environment)
    return template


class _Bounds(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        written = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        step = _call("step", [nodes.Const(written)], node)
        node.body.insert(0, nodes.ExprStmt(step, lineno=node.lineno))
        if node.test is not None:
            node.test = nodes.And(_call("step", [nodes.Const(0)], node), node.test, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:  # noqa: N802
        self.generic_visit(node)
        return _call("concatenate", node.nodes, node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        parts = (node.arg.start, node.arg.stop, node.arg.step)
        return _call("cut", [node.node, *(part or nodes.Const(None) for part in parts)], node)

    def visit_List(self, node: nodes.List) -> nodes.Call:  # noqa: N802
        self.generic_visit(node)
        return _call("own_list", [node], node)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        self.generic_visit(node)
        node.expr = _readable(node.expr)
        for operand in node.ops:
            operand.expr = _readable(operand.expr)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Pair:  # noqa: N802
        self.generic_visit(node)
        node.key = _readable(node.key)
        return node


def _readable(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _call("readable", [node], node)


def _call(method: str, arguments: list[nodes.Expr], at: nodes.Node) -> nodes.Call:
    target = nodes.EnvironmentAttribute(method, lineno=at.lineno)
    return nodes.Call(target, arguments, [], None, None, lineno=at.lineno)
